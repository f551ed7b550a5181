"""The audit of a store: findings, lag, ledgers, and the page that shows them."""
