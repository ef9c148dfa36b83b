"""Which hosts there are: the etcd client and embedded server, leases, claims, the failure detector."""
