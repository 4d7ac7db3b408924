"""Studies: claims about attention that can be run. One file a claim."""
