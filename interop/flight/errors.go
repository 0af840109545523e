package flight

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/dlx-go/dlx/core"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The errors of a server that have no sentinel in core.
var (
	errNoTensor = errors.New("no such tensor")
	errDenied   = errors.New("not allowed")
)

// codesOf are the codes for the errors of a server. The first one that fits counts.
var codesOf = []struct {
	err  error
	code codes.Code
}{
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{errNoTensor, codes.NotFound},
	{errDenied, codes.PermissionDenied},
	{core.ErrExists, codes.AlreadyExists},
	{core.ErrOutOfMemory, codes.ResourceExhausted},
	{core.ErrNotSupported, codes.Unimplemented},
	{core.ErrVersion, codes.InvalidArgument},
	{core.ErrDType, codes.InvalidArgument},
	{core.ErrLayout, codes.InvalidArgument},
	{core.ErrInvalid, codes.InvalidArgument},
	{core.ErrClosed, codes.Unavailable},
}

// maxText bounds the bytes of the text of an error that a server sends. Some clients take only 8 KiB of headers.
const maxText = 2048

// shorten cuts a text.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("...")], "") + "..."
}

// toStatus returns the error that a server sends for err, with at most maxText bytes of its text.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok { // of gRPC itself
		return err
	}
	for _, x := range codesOf {
		if errors.Is(err, x.err) {
			return status.Error(x.code, shorten(err.Error()))
		}
	}
	return status.Error(codes.Internal, shorten(err.Error()))
}

// sentinels are the errors for the codes of a call whose context has not ended.
var sentinels = map[codes.Code]error{
	codes.Canceled:          core.ErrClosed, // the client is closed, or the server has given up
	codes.DeadlineExceeded:  context.DeadlineExceeded,
	codes.AlreadyExists:     core.ErrExists,
	codes.ResourceExhausted: core.ErrOutOfMemory,
	codes.Unimplemented:     core.ErrNotSupported,
	codes.Unavailable:       core.ErrClosed,
}

// fromStatus returns an error of a call to a server as an error of core. io.EOF stays.
func fromStatus(ctx context.Context, call string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if ctx.Err() != nil { // the server sees the end of ctx, too, and may say so first
		return ctx.Err()
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	sentinel := sentinels[s.Code()]
	if sentinel == nil {
		sentinel = core.ErrInvalid
	}
	return fail(because(sentinel, err), call, "the call failed at the server or on the way")
}
