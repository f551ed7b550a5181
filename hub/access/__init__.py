"""Access at the hub: it asks the rules about each request, before it looks for the topic."""
