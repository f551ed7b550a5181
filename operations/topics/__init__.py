"""Topics and subscriptions as several commands look at them and change them."""
