// Descriptions of tensors, scalars and lists, and the executor that joins the two phases of an operator call.
// Valid C99 and C++11. All functions have C linkage and may be called from any thread.
//
// Errors: functions that return aclnnStatus give 0 (OK) or one of
//   161001  a required pointer is null              161002  another argument is wrong
//   361001  the stream did not take the work        561000  unexpected, for instance an executor used twice
//   561101  no memory for an executor
//   561103  the executor or the tensor is null in a call of "Executors" below (a null executor in phase two: 161001)
// and functions that create something give nullptr on failure. Each failure queues one text for aclGetRecentErrMsg() on
// the calling thread; it names the argument, the value found and the rule. A successful creation, getter or executor
// helper drops the thread's older texts of aclnn functions. The destroy functions leave them, so that cleaning up after
// a failure does not hide its reason.
#ifndef FUSION_ATTENTION_ACLNN_ACL_META_H_
#define FUSION_ATTENTION_ACLNN_ACL_META_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Operator headers may repeat this block.
#ifndef ACLNN_META
#define ACLNN_META
typedef struct aclOpExecutor aclOpExecutor;  // a handle, never an address to read through
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;

typedef int32_t aclnnStatus;
#ifdef __cplusplus
constexpr aclnnStatus OK = 0;
#else
static const aclnnStatus OK = 0;
#endif
#endif  // ACLNN_META

// ---- Tensors --------------------------------------------------------------------------------------------------------

// Describes a strided view of device memory: element (i0, i1, ...) lies at
//   tensorData + (offset + i0 * stride[0] + i1 * stride[1] + ...) * sizeof(element).
//
// viewDims       shape of the view, viewDimsNum entries, each >= 0 (a 0 makes an empty tensor). nullptr with
//                viewDimsNum 0 makes a tensor of rank 0, which has one element. At most 16 dimensions.
// dataType       element type; whether it is supported is the operator's decision.
// stride         viewDimsNum strides in elements, any value including 0; nullptr means row-major without gaps.
// offset         first element of the view within the storage, in elements, >= 0.
// format         ND and the other plain formats mean the same; others are refused by the operators.
// storageDims    shape of the storage, storageDimsNum entries, in any rank; serves only to detect views that reach
//                outside of it, which operators answer with 161002. nullptr with storageDimsNum 0 means unknown.
// tensorData     device address of the storage's first element; nullptr is legal (empty tensors, address set later).
//
// The arrays are copied, the data is neither copied nor owned. Returns nullptr for a null array with a count above 0,
// more than 16 dimensions, a negative dimension or offset, a view that reaches below element 0, and for sizes whose
// number of elements or bytes does not fit in int64_t.
ACL_FUNC_VISIBILITY aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                               const int64_t* stride, int64_t offset, aclFormat format,
                                               const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData);

// Gives an existing tensor a new description; arguments and rules of aclCreateTensor. 161001 when tensor, or an array
// with a count above 0, is null; 161002 for what else aclCreateTensor would refuse. The tensor is unchanged then.
ACL_FUNC_VISIBILITY aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                                              aclDataType dataType, const int64_t* stride, int64_t offset,
                                              aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                                              void* tensorDataAddr);

// Frees the description, not the data. Legal between the two phases of an operator: phase one has copied what it
// needs. nullptr is allowed. Returns 0.
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensor(const aclTensor* tensor);

// The view's shape: *viewDims becomes an array of *viewDimsNum entries that the caller releases with delete[] (not
// free()). 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum);

// The storage's shape as it was given, in an array that the caller releases with delete[]. 161001 when an argument is
// null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                                                   uint64_t* storageDimsNum);

// The view's strides in elements, in an array that the caller releases with delete[]. 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                                                  uint64_t* stridesNum);

// First element of the view within the storage, in elements. 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset);

// The format as it was given. 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format);

// The element type. 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType);

// Replaces the storage address kept in the tensor; executors made from the tensor earlier keep the old one. `addr` may
// be nullptr. 161001 when tensor is null.
ACL_FUNC_VISIBILITY aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr);

// The storage address kept in the tensor. 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr);

// ---- Scalars and arrays ---------------------------------------------------------------------------------------------

// Copies one value of type dataType. nullptr when value is null or the type has no size in whole bytes.
ACL_FUNC_VISIBILITY aclScalar* aclCreateScalar(void* value, aclDataType dataType);

// Arrays copy their `size` values. (nullptr, 0) makes an empty array, which operators treat like a null pointer;
// nullptr with a size above 0 gives nullptr.
ACL_FUNC_VISIBILITY aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
ACL_FUNC_VISIBILITY aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size);
ACL_FUNC_VISIBILITY aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);

// Lists copy the pointers and own the elements from then on: destroying the list destroys them. Null elements are kept
// as absent entries. (nullptr, 0) makes an empty list; nullptr with a size above 0 gives nullptr.
ACL_FUNC_VISIBILITY aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size);
ACL_FUNC_VISIBILITY aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size);

// nullptr is allowed. Return 0.
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalar(const aclScalar* scalar);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyIntArray(const aclIntArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyFloatArray(const aclFloatArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensorList(const aclTensorList* array);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyScalarList(const aclScalarList* array);

// Number of elements. 161001 when an argument is null.
ACL_FUNC_VISIBILITY aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size);
ACL_FUNC_VISIBILITY aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size);

// ---- Executors ------------------------------------------------------------------------------------------------------
// Phase one of an operator (aclnn...GetWorkspaceSize) makes an executor; phase two runs it and frees it. Handles are
// checked against the executors alive: one that was used up, destroyed or never made is answered with 561000.

// Keeps the executor after phase two, so that phase two can run any number of times. Call it between phase one and the
// first phase two, and release the executor with aclDestroyAclOpExecutor. 561103 when executor is null.
ACL_FUNC_VISIBILITY aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);

// Releases an executor, repeatable or not yet used. A run in progress on another thread ends undisturbed. 561103 when
// executor is null.
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);

// Exchange the storage address of one tensor argument for the following runs of an executor. `index` counts the
// operator's tensor inputs (outputs; for aclSetTensorAddr inputs, then outputs) in signature order from 0, absent
// optional ones included. `tensor` describes the argument as in phase one; its address becomes `addr` too. Shape,
// strides and offset stay those of phase one. 561103 when executor or tensor is null; 161001 when addr is null although
// the tensor has elements; 161002 when index is out of range; 561000 while the executor runs on another thread.
ACL_FUNC_VISIBILITY aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                      void* addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                       void* addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                 void* addr);

// The same three under their former names.
ACL_FUNC_VISIBILITY aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                      void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                       void* addr);
ACL_FUNC_VISIBILITY aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                 void* addr);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNN_ACL_META_H_
