package core

import "context"

// attachedOwner frees what was attached to memory, then the memory.
type attachedOwner struct {
	first []Owner
	owner Owner // nil if nobody needs to be told
}

func (a attachedOwner) Free() {
	a.freeFirst()
	if a.owner != nil {
		a.owner.Free()
	}
}

func (a attachedOwner) freeFirst() {
	for _, o := range a.first {
		o.Free()
	}
}

// orderedAttached tells an owner that orders the release at once, so that its device
// knows of the memory, which is freed behind the attachments all the same.
type orderedAttached struct {
	attachedOwner
	ordered orderedOwner
}

var _ orderedOwner = orderedAttached{}

func (a orderedAttached) FreeAfter(pending []Event) {
	gone := make(detached)
	a.ordered.FreeAfter(append(pending[:len(pending):len(pending)], gone))
	go func() {
		for _, e := range pending {
			_ = e.Wait(context.Background())
		}
		a.freeFirst()
		close(gone)
	}()
}

// detached is the event that attachments were freed.
type detached chan struct{}

func (d detached) Done() (bool, error) {
	select {
	case <-d:
		return true, nil
	default:
		return false, nil
	}
}

func (d detached) Wait(ctx context.Context) error {
	select {
	case <-d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
