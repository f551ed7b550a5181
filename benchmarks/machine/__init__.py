"""The machine: processors, memory, disks and Java heaps, sampled while something is measured."""
