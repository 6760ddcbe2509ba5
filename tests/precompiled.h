// The precompiled header of the test programs: headers that nearly every test includes.
#include "../src/precompiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
