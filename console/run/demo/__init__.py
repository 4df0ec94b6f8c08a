"""The demonstration: the flights that left New York in 2013, replayed as delayed messages."""
