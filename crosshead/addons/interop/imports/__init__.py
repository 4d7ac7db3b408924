"""Models of other toolkits as bundles, one module a toolkit."""
