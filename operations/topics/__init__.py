"""Topics and subscriptions, as several commands read and change them."""
