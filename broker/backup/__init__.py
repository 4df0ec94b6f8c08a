"""Backups of a store: taken beside a running broker, restored to any moment that the log holds, rehearsed.

A backup is a directory, or the same directory as a tar stream:

    manifest.json          what belongs to the backup, with sizes and SHA-256; written last: without it there is none
    partial.json           while one is under way: what the next run need not copy again
    commitlog/<position>   segments of the log, each as far as it was written
    objects/<SHA-256>      every other file of the store, under the name of its content
    lock                   held by who writes here

The log is the truth, so a backup is of one position of it: all records below, none behind. What follows from the log
(queues, index, the files of timers, halves and pops) is copied as the broker's last checkpoint left it, so that a
restored broker reads the log from there on and not from its beginning; the tables beside it are copied before the
position is chosen, so that they say nothing the log does not know.

``taking.py`` takes one, ``restoring.py`` brings it back and proves it, ``cut.py`` goes to an earlier moment;
``command.py`` has the commands.
"""
