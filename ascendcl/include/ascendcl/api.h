// Marks what libascendcl offers to the other libraries of this project (namespace ascendcl).
// The C interface in acl/ is the public one; these C++ calls may change with any release.
#pragma once

#define ASCENDCL_API __attribute__((visibility("default")))
