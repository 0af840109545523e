package objc

import "strings"

// Method declares a method of Metal or Foundation.
type Method struct {
	Type      string // the protocol, or the class, that declares it
	Selector  string
	Result    string // a type of C; "id" is every object
	Arguments string // the types of the arguments, separated by blanks
	Since     string // the first macOS that has it
}

// Owned reports whether the caller owns the result: section 3 of clang.llvm.org/docs/AutomaticReferenceCounting.html,
// "Method families".
func (m Method) Owned() bool {
	for _, family := range []string{"alloc", "copy", "mutableCopy", "new"} {
		rest, found := strings.CutPrefix(m.Selector, family)
		if found && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return m.Result == "id"
		}
	}
	return false
}

// method is an index of methods.
type method int

const (
	conformsToProtocol method = iota
	arrayCount
	objectAtIndex
	utf8String
	stringWithCString
	errorDomain
	errorCode
	errorDescription
	deviceName
	registryID
	hasUnifiedMemory
	workingSetSize
	maxBufferLength
	maxThreadsPerThreadgroup
	currentAllocatedSize
	newBuffer
	newBufferNoCopy
	newCommandQueue
	newSharedEvent
	newLibrary
	newPipeline
	resourceDevice
	storageMode
	bufferLength
	bufferContents
	queueDevice
	commandBuffer
	encodeWait
	encodeSignal
	blitEncoder
	computeEncoder
	addCompletedHandler
	commit
	commandBufferStatus
	commandBufferError
	endEncoding
	copyBuffer
	setPipeline
	setBuffer
	setBytes
	dispatch
	signaledValue
	setSignaledValue
	waitValue
	newFunction
	maxTotalThreads
	methodCount
)

// methods are all the methods that this package calls. The macOS of Since is that of Apple's documentation. Programs of
// Go 1.25 need macOS 12, so none of them can be missing.
var methods = [methodCount]Method{
	conformsToProtocol: {"NSObject", "conformsToProtocol:", "BOOL", "id", "10.0"},

	arrayCount:        {"NSArray", "count", "NSUInteger", "", "10.0"},
	objectAtIndex:     {"NSArray", "objectAtIndex:", "id", "NSUInteger", "10.0"},
	utf8String:        {"NSString", "UTF8String", "pointer", "", "10.0"},
	stringWithCString: {"NSString", "stringWithCString:encoding:", "id", "pointer NSStringEncoding", "10.4"},
	errorDomain:       {"NSError", "domain", "id", "", "10.0"},
	errorCode:         {"NSError", "code", "NSInteger", "", "10.0"},
	errorDescription:  {"NSError", "localizedDescription", "id", "", "10.0"},

	deviceName:               {"MTLDevice", "name", "id", "", "10.11"},
	registryID:               {"MTLDevice", "registryID", "uint64_t", "", "10.13"},
	hasUnifiedMemory:         {"MTLDevice", "hasUnifiedMemory", "BOOL", "", "10.15"},
	workingSetSize:           {"MTLDevice", "recommendedMaxWorkingSetSize", "uint64_t", "", "10.12"},
	maxBufferLength:          {"MTLDevice", "maxBufferLength", "NSUInteger", "", "10.14"},
	maxThreadsPerThreadgroup: {"MTLDevice", "maxThreadsPerThreadgroup", "MTLSize", "", "10.11"},
	currentAllocatedSize:     {"MTLDevice", "currentAllocatedSize", "NSUInteger", "", "10.13"},

	newBuffer:       {"MTLDevice", "newBufferWithLength:options:", "id", "NSUInteger MTLResourceOptions", "10.11"},
	newBufferNoCopy: {"MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:", "id", "pointer NSUInteger MTLResourceOptions block", "10.11"},
	newCommandQueue: {"MTLDevice", "newCommandQueueWithMaxCommandBufferCount:", "id", "NSUInteger", "10.11"},
	newSharedEvent:  {"MTLDevice", "newSharedEvent", "id", "", "10.14"},
	newLibrary:      {"MTLDevice", "newLibraryWithSource:options:error:", "id", "id id error", "10.11"},
	newPipeline:     {"MTLDevice", "newComputePipelineStateWithFunction:error:", "id", "id error", "10.11"},

	resourceDevice: {"MTLResource", "device", "id", "", "10.11"},
	storageMode:    {"MTLResource", "storageMode", "MTLStorageMode", "", "10.11"},
	bufferLength:   {"MTLBuffer", "length", "NSUInteger", "", "10.11"},
	bufferContents: {"MTLBuffer", "contents", "pointer", "", "10.11"},
	queueDevice:    {"MTLCommandQueue", "device", "id", "", "10.11"},
	commandBuffer:  {"MTLCommandQueue", "commandBuffer", "id", "", "10.11"},

	encodeWait:          {"MTLCommandBuffer", "encodeWaitForEvent:value:", "void", "id uint64_t", "10.14"},
	encodeSignal:        {"MTLCommandBuffer", "encodeSignalEvent:value:", "void", "id uint64_t", "10.14"},
	blitEncoder:         {"MTLCommandBuffer", "blitCommandEncoder", "id", "", "10.11"},
	computeEncoder:      {"MTLCommandBuffer", "computeCommandEncoder", "id", "", "10.11"},
	addCompletedHandler: {"MTLCommandBuffer", "addCompletedHandler:", "void", "block", "10.11"},
	commit:              {"MTLCommandBuffer", "commit", "void", "", "10.11"},
	commandBufferStatus: {"MTLCommandBuffer", "status", "MTLCommandBufferStatus", "", "10.11"},
	commandBufferError:  {"MTLCommandBuffer", "error", "id", "", "10.11"},

	endEncoding: {"MTLCommandEncoder", "endEncoding", "void", "", "10.11"},
	copyBuffer:  {"MTLBlitCommandEncoder", "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", "void", "id NSUInteger id NSUInteger NSUInteger", "10.11"},
	setPipeline: {"MTLComputeCommandEncoder", "setComputePipelineState:", "void", "id", "10.11"},
	setBuffer:   {"MTLComputeCommandEncoder", "setBuffer:offset:atIndex:", "void", "id NSUInteger NSUInteger", "10.11"},
	setBytes:    {"MTLComputeCommandEncoder", "setBytes:length:atIndex:", "void", "pointer NSUInteger NSUInteger", "10.11"},
	dispatch:    {"MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:", "void", "MTLSize MTLSize", "10.11"},

	signaledValue:    {"MTLSharedEvent", "signaledValue", "uint64_t", "", "10.14"},
	setSignaledValue: {"MTLSharedEvent", "setSignaledValue:", "void", "uint64_t", "10.14"},
	waitValue:        {"MTLSharedEvent", "waitUntilSignaledValue:timeoutMS:", "BOOL", "uint64_t uint64_t", "12.0"},
	newFunction:      {"MTLLibrary", "newFunctionWithName:", "id", "id", "10.11"},
	maxTotalThreads:  {"MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", "NSUInteger", "", "10.11"},
}

// Constants that this package uses, beside those of package driver.
const (
	statusError  = 5 // MTLCommandBufferStatusError
	encodingUTF8 = 4 // NSUTF8StringEncoding
)
