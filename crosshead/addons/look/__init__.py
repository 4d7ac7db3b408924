"""A page in the browser that looks inside models while they work, and changes them."""
