// The public headers are valid C99: this file has only to compile, and the calls to link.
#include "aclnn/aclnn_base.h"

int call_from_c(void);

int call_from_c(void) {
    const int64_t dims[2] = {2, 3};
    uint64_t num = 0;
    int64_t* shape = NULL;
    aclTensor* tensor = aclCreateTensor(dims, 2, ACL_FLOAT16, NULL, 0, ACL_FORMAT_ND, dims, 2, NULL);
    aclIntArray* array = aclCreateIntArray(dims, 2);
    if (tensor == NULL || array == NULL || aclnnInit(NULL) != OK) return 1;
    if (aclGetIntArraySize(array, &num) != OK || num != 2) return 2;
    if (aclGetViewShape(NULL, &shape, &num) != 161001 || shape != NULL) return 3;
    if (aclDestroyTensor(tensor) != OK || aclDestroyIntArray(array) != OK || aclnnFinalize() != OK) return 4;
    return 0;
}
