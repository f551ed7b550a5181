"""What commands write: formats, fields, progress."""
