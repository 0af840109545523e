package stream

// Start is what backends of this module call by package private.
var Start = privateStream{}.Start
