#pragma once

// From now on programs gather weights directly in front of their use.
void add_late_gathers();
