"""Tools that asyncio lacks, such as locks by key, rate limits, shared work and fair turns."""
