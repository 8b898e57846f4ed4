"""Steps that several attacks share; nothing here is shared with a method."""
