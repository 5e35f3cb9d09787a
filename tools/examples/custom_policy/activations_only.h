#pragma once

// From now on runs that must leave device memory may do so with what layers keep for their backward alone.
void add_activations_only();
