"""Sampling, recombination, mutation and neighbours of genomes, in a module for each space."""
