"""The job systems; each is one package, found by the registry and imported when it is used."""
