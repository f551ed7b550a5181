"""The client for programs without asyncio: calls that return when they are done."""
