"""Stub, being replaced."""
class Congestion:
    @classmethod
    def from_settings(cls, s): return cls()
    def __init__(self): self.nodes=[]; self.busy={}
    def set_network(self, network, nodes, *, now_ns): self.nodes=nodes
    def report(self, node, rates, *, now_ns): self.busy[node]=[d for d,(r,b) in rates.items() if r>5e6 or b]
    def counters(self, links, *, now_ns): pass
    def left(self, node, *, now_ns): pass
    def contended(self): return []
    def regulated(self, *, now_ns):
        out={}
        for n,ds in self.busy.items():
            if ds: out[n]=frozenset(self.nodes)-{n}
        return out
