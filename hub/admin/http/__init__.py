"""The HTTP side of the admin endpoint: connections, who sends a request, what it asks, and answers."""
