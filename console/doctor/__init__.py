"""The doctor of a whole house: what broker/doctor looks at, and settings, servers, workers and what they leave undone.

It runs where a process of the house runs, with its environment. Nothing of it needs the others: what is away is a
finding.
"""
