// The Catch2 header of whichever major version was found.
#pragma once
#include ZRT_CATCH_HEADER

#if !defined(CATCH_VERSION_MAJOR) || CATCH_VERSION_MAJOR >= 3
using Catch::Approx;
#endif
