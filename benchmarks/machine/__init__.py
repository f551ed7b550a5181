"""The machine: processors, memory, disks and Java heaps, sampled during a measurement."""
