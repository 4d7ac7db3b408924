"""Studies: claims about attention that can be run, one file per claim."""
