"""The suite `hub`: publishing, delivering, subscribing and owning, at hubs."""
