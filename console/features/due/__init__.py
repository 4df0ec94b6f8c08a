"""Everything that falls due: lanes, timers, tries of groups, Redisson's queues, checks of transactions."""
