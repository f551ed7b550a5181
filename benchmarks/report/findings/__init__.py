"""What a report says of its figures."""
