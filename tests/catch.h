// The Catch2 header of whichever major version was found.
#pragma once
#include ZRT_CATCH_HEADER

#include "tests/device.h"

#if !defined(CATCH_VERSION_MAJOR) || CATCH_VERSION_MAJOR >= 3
using Catch::Approx;
#endif

// For tests about what only the CPU has (its instruction sets, threads, libraries, memory that ops read on the host):
// first in the test, which then also has the tag [cpu].
#define ZRT_ONLY_ON_CPU() \
  if (zrt::test::test_device() != zrt::core::DeviceKind::cpu) { \
    WARN("skipped: this test is about the CPU"); \
    return; \
  }
