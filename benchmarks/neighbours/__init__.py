"""What clients that do not behave do to others, measured; the page is docs/hub-limits.md."""
