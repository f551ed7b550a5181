"""What commands take: names and their completion, files, selections, questions."""
