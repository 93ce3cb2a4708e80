/* What a plan is made of, as Python reads it (`SLOT` in batches.py, `Counts` in library.py). */
#pragma once
#include <stdint.h>

struct slot { /* as controller.policies.base.Slot */
	int64_t slot, node, destination, start, end, bytes, rate, reserved;
};

struct counts {
	uint64_t last_number;
	uint32_t grants, revokes;
};

struct returned { /* a slot that is given back (`RETURNED`) */
	int64_t slot, node, destination, unspent_bytes, backlog_bytes;
};
