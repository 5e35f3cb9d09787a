// Catch2 2 makes its main here; Catch2 3 brings one in Catch2::Catch2WithMain.
#define CATCH_CONFIG_MAIN
#include ZRT_CATCH_HEADER
