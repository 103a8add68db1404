// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"k8s.io/klog/v2"
)

// look requests the branches. With update, it fetches a branch that has moved.
func (r *repository) look(ctx context.Context, update bool) error {
	s, err := r.remote.open(ctx, uploadPack)
	if err != nil {
		return err
	}
	defer s.close()
	refs, err := s.refs(ctx)
	if err != nil || !update {
		return err
	}
	if err := checkFormat(refs); err != nil {
		return err
	}
	tip := r.remote.tip(refs)
	switch {
	case tip == r.tip && !tip.IsZero():
		return nil
	case tip.IsZero():
		r.forget()
		if !r.remote.at.CreateBranch {
			return errNoBranch
		}
		if other := r.remote.inTheWay(refs); other != "" {
			return fmt.Errorf("%w: there is a branch %s", errInTheWay, other)
		}
		return nil
	}
	request := fetchRequest(refs, tip, r.tip)
	answer, err := s.fetch(ctx, request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	got, err := readPack(demux(request.Capabilities, answer), r.options.MaxFetchBytes, false)
	if err != nil {
		return err
	}
	return r.take(tip, got)
}

// take makes a fetched commit the tip.
func (r *repository) take(tip plumbing.Hash, got map[plumbing.Hash]packed) error {
	var c object.Commit
	if err := c.Decode(memory(plumbing.CommitObject, got[tip].raw)); err != nil || got[tip].kind != plumbing.CommitObject {
		r.forget()
		return errors.Join(errMissing, err)
	}
	for h, p := range got {
		if p.kind == plumbing.TreeObject {
			r.trees[h] = p.raw
		}
	}
	r.advance(tip, c.TreeHash)
	return nil
}

// advance records the tip, and sometimes drops the trees of earlier commits.
func (r *repository) advance(tip, root plumbing.Hash) {
	const few = 1000
	r.tip, r.root = tip, root
	if len(r.trees) > 2*r.live+few {
		r.trees = r.trees.sweep(root)
		r.live = len(r.trees)
	}
}

// write pushes the commits of all calls at once, and each alone if the server rejects them.
func (r *repository) write(ctx context.Context, calls []*call) {
	err := r.commit(ctx, calls)
	var refused *refusal
	if len(calls) > 1 && (errors.As(err, &refused) || statusOf(err) == http.StatusRequestEntityTooLarge) {
		for _, c := range calls {
			if !c.answered {
				c.answer(r.remote.failed(ctx, "writing", r.commit(ctx, []*call{c})))
			}
		}
		return
	}
	err = r.remote.failed(ctx, "writing", err)
	for _, c := range calls {
		c.answer(err)
	}
}

// commit pushes commits on the tip, and repeats that while other writers are faster.
func (r *repository) commit(ctx context.Context, calls []*call) error {
	for attempt := 1; ; attempt++ {
		err := r.attempt(ctx, calls)
		var refused *refusal
		switch {
		case errors.As(err, &refused):
			moved, lookErr := r.moved(ctx)
			if lookErr != nil {
				return lookErr
			}
			if !moved && !refused.raced() || attempt >= r.options.PushAttempts && !refused.raced() {
				return err
			}
			err = errMoving
		case errors.Is(err, errMissing):
			r.forget()
		default:
			return err
		}
		if attempt >= r.options.PushAttempts {
			return err
		}
		klog.FromContext(ctx).V(2).Info("Lost a race for the branch, pushing again", "url", r.remote.at.URL, "branch",
			r.remote.at.Branch, "attempt", attempt)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.options.Clock.After(rand.N(time.Duration(attempt) * 20 * time.Millisecond)):
		}
	}
}

// moved reports whether the branch has moved since it was last read.
func (r *repository) moved(ctx context.Context) (bool, error) {
	before := r.tip
	err := r.look(ctx, true)
	return r.tip != before, err
}

func (r *repository) attempt(ctx context.Context, calls []*call) error {
	s, err := r.remote.open(ctx, receivePack)
	if err != nil {
		return err
	}
	defer s.close()
	refs, err := s.refs(ctx)
	if err != nil {
		return err
	}
	if err := checkFormat(refs); err != nil {
		return err
	}
	if tip := r.remote.tip(refs); tip != r.tip || tip.IsZero() {
		if err := r.look(ctx, true); err != nil {
			return err
		}
	}
	p, err := r.build(calls)
	if err != nil || p.tip == r.tip {
		return err
	}
	pack, err := writePack(p.objects)
	if err != nil {
		return err
	}
	report, err := s.push(ctx, r.remote.pushRequest(refs, r.tip, p.tip, io.NopCloser(bytes.NewReader(pack))))
	switch {
	case err != nil:
		return fmt.Errorf("the push: %w", err)
	case report == nil: // without a report, read the branch
		if err := r.look(ctx, true); err != nil || r.tip == p.tip {
			return err
		}
		return &refusal{"it does not say why"}
	case report.UnpackStatus != "ok":
		return &refusal{"it cannot take the objects: " + report.UnpackStatus}
	}
	for _, status := range report.CommandStatuses {
		if status.Status != "ok" {
			return &refusal{status.Status}
		}
	}
	r.advance(p.tip, p.root)
	return nil
}

// plan is a chain of commits on the tip, and their objects.
type plan struct {
	tip, root plumbing.Hash
	objects   []plumbing.EncodedObject
}

// build makes a commit for each call that changes something, and answers calls that cannot be done.
func (r *repository) build(calls []*call) (*plan, error) {
	p := &plan{tip: r.tip, root: r.root}
	draft, err := newDraft(r.trees, r.root)
	for i := 0; i < len(calls) && err == nil; i++ {
		c := calls[i]
		if c.answered {
			continue
		}
		changed, blobs, failure := draft.edit(c)
		if errors.Is(failure, errMissing) {
			return nil, failure
		}
		if failure != nil {
			c.answer(failure)
			draft, err = newDraft(r.trees, p.root) // without its partial changes
			continue
		}
		if len(changed) > 0 {
			c.commit.Changed = changed
			p.objects = append(p.objects, blobs...)
			err = r.append(p, draft, c.commit)
		}
	}
	return p, err
}

func (r *repository) append(p *plan, d *draft, c Commit) error {
	root, objects, err := d.write()
	if err != nil {
		return err
	}
	who := object.Signature{Name: r.options.Author.Name, Email: r.options.Author.Email, When: r.options.Clock.Now()}
	commit := object.Commit{Author: who, Committer: who, Message: message(r.options.Message(c)), TreeHash: root}
	if !p.tip.IsZero() {
		commit.ParentHashes = []plumbing.Hash{p.tip}
	}
	var o plumbing.MemoryObject
	if err := commit.Encode(&o); err != nil {
		return err
	}
	p.objects = append(append(p.objects, objects...), &o)
	p.tip, p.root = o.Hash(), root
	return nil
}
