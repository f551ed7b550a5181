"""What asyncio lacks, without anything of Hedwig: locks by key, rate limits, shared work, fair turns."""
