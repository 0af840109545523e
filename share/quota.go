package share

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// UserLimits bound what all processes of one user together have on their connections to a
// [Listener], by the user that the system reports (SO_PEERCRED). So a process that connects many times,
// or starts others that connect, has no more than one that connects once. Connections count until they have
// ended. What the program itself keeps of an ended connection, such as received tensors, does not count.
//
// Processes do not know what others of their user have, so that Send does not wait for room. A
// process that connects when its user has all connections is refused. One that passes more than the user may
// loses the connection, with core.ErrOutOfMemory at both sides, and a text that names the limit.
type UserLimits struct {
	Connections int // that are open; default 256
	// Descriptors bounds the connections, memories, rings and semaphores together, each of which
	// may take a descriptor; default 8192.
	Descriptors int
	Bytes       int64 // of memories and rings; default 1 TiB
}

// withDefaults returns l with the defaults. It fails with ErrInvalid.
func (l UserLimits) withDefaults() (UserLimits, error) {
	if l.Connections < 0 || l.Descriptors < 0 || l.Bytes < 0 {
		return l, core.Errorf(core.ErrInvalid, "share", "Options", "the limits for each user are %d connections, %d descriptors and %d bytes: none may be negative", l.Connections, l.Descriptors, l.Bytes)
	}
	if l.Connections == 0 {
		l.Connections = 256
	}
	if l.Descriptors == 0 {
		l.Descriptors = 8192
	}
	if l.Bytes == 0 {
		l.Bytes = 1 << 40
	}
	return l, nil
}

// quotas counts what the users have on the connections of a listener.
type quotas struct {
	limits UserLimits

	mu    sync.Mutex // taken after that of a connection
	users map[uint32]*usage
}

// usage is what a user or one connection has.
type usage struct {
	connections int
	descriptors int
	bytes       int64
}

// quota is what one connection has. The zero value is that of a connection without a listener, which
// counts nothing.
type quota struct {
	all  *quotas
	uid  uint32
	mine usage // guarded by the mutex of all
}

func newQuotas(l UserLimits) *quotas {
	return &quotas{limits: l, users: make(map[uint32]*usage)}
}

// connect begins to count a connection. It fails with ErrOutOfMemory, and then counts nothing.
func (q *quotas) connect(uid uint32) (*quota, error) {
	x := &quota{all: q, uid: uid}
	return x, x.take(usage{connections: 1, descriptors: 1})
}

// take counts what the peer passes. It fails with ErrOutOfMemory if that is more than its user may,
// and then counts nothing.
func (x *quota) take(more usage) error {
	q := x.all
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	u, l := usage{}, &q.limits
	if has := q.users[x.uid]; has != nil {
		u = *has
	}
	over := func(what string, has, most int64) error {
		return core.Errorf(core.ErrOutOfMemory, "share", "UserLimits", "the processes of user %d have %d %s together, and may have %d: close some, or raise the limits for each user of the process that listens", x.uid, has, what, most)
	}
	switch {
	case u.connections+more.connections > l.Connections:
		return over("connections", int64(u.connections), int64(l.Connections))
	case u.descriptors+more.descriptors > l.Descriptors:
		return over("connections, memories, rings and semaphores", int64(u.descriptors), int64(l.Descriptors))
	case u.bytes > l.Bytes-more.bytes:
		return over("bytes of memory", u.bytes, l.Bytes)
	}
	u.add(more, 1)
	x.mine.add(more, 1)
	q.users[x.uid] = &u
	return nil
}

// give counts what the peer has taken back.
func (x *quota) give(less usage) {
	q := x.all
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	x.mine.add(less, -1)
	u := q.users[x.uid]
	u.add(less, -1)
	if u.connections == 0 {
		delete(q.users, x.uid)
	}
}

// end counts the end of the connection.
func (x *quota) end() {
	if x.all == nil {
		return
	}
	x.all.mu.Lock()
	rest := x.mine
	x.all.mu.Unlock()
	x.give(rest) // nothing else changes it any more
}

func (u *usage) add(v usage, sign int) {
	u.connections += sign * v.connections
	u.descriptors += sign * v.descriptors
	u.bytes += int64(sign) * v.bytes
}
