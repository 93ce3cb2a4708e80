// Sums over the whole fabric. The state of a large fabric has them; for another one they are made of its lists. Pure.

const odd = (member) => member.suspect?.length || member.warnings?.length || member.drift?.length;

export function totalsOf({ totals, links, flows, members }) {
  if (totals) return totals;
  return {
    contended: Object.values(links).filter((link) => link.contended).length,
    flows: flows.length,
    regulated: flows.filter((flow) => flow.regulated).length,
    backlog_bytes: flows.reduce((sum, flow) => sum + flow.backlog_bytes, 0),
    waiting_ms: flows.reduce((most, flow) => Math.max(most, flow.waiting_ms ?? 0), 0),
    members: members.length,
    odd: members.filter(odd).length,
  };
}
