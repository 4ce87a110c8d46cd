"""Sampling, recombination, mutation and neighbours of genomes, a module a space."""
