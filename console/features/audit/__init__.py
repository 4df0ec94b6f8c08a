"""The audit of doors that know no operation, and brokers that are administered by remoting."""
