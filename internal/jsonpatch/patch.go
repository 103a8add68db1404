// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsonpatch applies untrusted JSON patches (RFC 6902) and JSON merge patches (RFC 7396).
// The results and error texts are those of gopkg.in/evanphx/json-patch.v4, which the API server
// uses, but memory and time are limited:
//
//   - Decode refuses more than [jsontext.MaxOperations] operations, and allocates at most 1 MiB.
//   - Options.MaxCopied limits the bytes that copy operations add.
//   - A patch that reads too much text, opens too many values or moves too many list elements
//     fails with [ErrTooExpensive], within a second.
//   - No patch panics.
package jsonpatch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// Errors for errors.Is.
var (
	ErrTooExpensive = errors.New("the patch is too expensive for an object of this size")

	errMissing = errors.New("missing value")
	errIndex   = errors.New("invalid index referenced")
	errTest    = errors.New("test failed")
)

// CopySizeError is returned when copy operations add more than Options.MaxCopied bytes.
type CopySizeError struct{ Size, Limit int }

// Error returns the API server's text.
func (e *CopySizeError) Error() string {
	return fmt.Sprintf("Unable to complete the copy, the accumulated size increase of copy is %d, exceeding the limit %d",
		e.Size, e.Limit)
}

// Options configures [Patch.Apply].
type Options struct {
	// MaxCopied is the number of bytes that all copy operations of a patch may add.
	MaxCopied int
	// Lenient accepts patches that the API server accepts beyond RFC 6902: indices from the end of
	// a list, and missing members as the source of a copy or the target of a replace.
	Lenient bool
}

const (
	// maxCost limits the bytes of opened values, plus partCost and moveCost. It takes less than a
	// second.
	maxCost = 1 << 28
	// partCost is added for each part of an opened value, which needs up to 150 bytes of memory.
	partCost = 512
	// moveCost is added for each list element that an operation moves.
	moveCost = 2
	// maxDepth is the depth of the deepest value that encoding/json reads.
	maxDepth = 10_000
)

// Apply applies the patch to a document and returns the result. Its size is at most that of
// document and patch plus Options.MaxCopied.
func (p Patch) Apply(doc []byte, o Options) ([]byte, error) {
	if !jsontext.Valid(doc) {
		return nil, errors.New("the document is not JSON")
	}
	a := applier{options: o, root: node{raw: bytes.TrimSpace(doc)}}
	if root, err := a.open(&a.root); err != nil || root == nil {
		return nil, cmp.Or(err, errors.New("the document must be object or array"))
	}
	for _, o := range p {
		if err := a.apply(o); err != nil {
			return nil, err
		}
	}
	return a.root.append(nil, 0)
}

var null = []byte("null")

type applier struct {
	options      Options
	root         node
	cost, copied int
}

func (a *applier) spend(n int) error {
	if a.cost += n; a.cost > maxCost {
		return ErrTooExpensive
	}
	return nil
}

func (a *applier) apply(o operation) error {
	kind, err := textOf(o.op, "op")
	if err != nil {
		kind = "unknown"
	}
	switch kind {
	case "add":
		return a.add(o)
	case "remove":
		return a.remove(o)
	case "replace":
		return a.replace(o)
	case "move":
		return a.move(o)
	case "test":
		return a.test(o)
	case "copy":
		return a.copy(o)
	}
	return fmt.Errorf("Unexpected kind: %s", kind) //nolint:staticcheck // the API server's text
}

func (a *applier) add(o operation) error {
	path, err := textOf(o.path, "path")
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", errMissing)
	}
	if path == "" && !a.options.Lenient {
		return a.replaceRoot(o)
	}
	c, key, err := a.find(path, `add operation does not apply: doc is missing path: "%s": %w`)
	if err != nil {
		return err
	}
	if err := a.insert(c, key, o.node()); err != nil {
		return fmt.Errorf("error in add for path: '%s': %w", path, err)
	}
	return nil
}

func (a *applier) remove(o operation) error {
	path, err := textOf(o.path, "path")
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", errMissing)
	}
	c, key, err := a.find(path, `remove operation does not apply: doc is missing path: "%s": %w`)
	if err != nil {
		return err
	}
	if err := a.take(c, key); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (a *applier) replace(o operation) error {
	path, err := textOf(o.path, "path")
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	if path == "" {
		return a.replaceRoot(o)
	}
	c, key, err := a.find(path, "replace operation does not apply: doc is missing path: %s: %w")
	if err != nil {
		return err
	}
	at, err := a.get(c, key)
	switch {
	case err != nil || at == nil && !a.options.Lenient:
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, errMissing)
	case at == nil:
		return a.insert(c, key, o.node())
	}
	*at = o.node()
	return nil
}

func (a *applier) replaceRoot(o operation) error {
	value := o.node()
	c, err := a.open(&value)
	if err != nil || c == nil {
		return cmp.Or(err, errors.New("replace operation value must be object or array"))
	}
	a.root = value
	return nil
}

func (a *applier) move(o operation) error {
	from, err := textOf(o.from, "from")
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	c, key, err := a.find(from, "move operation does not apply: doc is missing from path: %s: %w")
	if err != nil {
		return err
	}
	at, err := a.get(c, key)
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	var value node
	if at != nil {
		value = *at
	}
	if err := a.take(c, key); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	path, err := textOf(o.path, "path")
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	c, key, err = a.find(path, "move operation does not apply: doc is missing destination path: %s: %w")
	if err != nil {
		return err
	}
	if err := a.insert(c, key, value); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", path, err)
	}
	return nil
}

func (a *applier) test(o operation) error {
	path, err := textOf(o.path, "path")
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	at := &a.root
	if path != "" {
		c, key, err := a.find(path, "test operation does not apply: is missing path: %s: %w")
		if err != nil {
			return err
		}
		if at, err = a.get(c, key); err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", path, err)
		}
		if at == nil {
			at = &node{raw: null}
		}
	}
	value := o.node()
	same, err := a.equal(at, &value)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("testing value %s failed: %w", path, errTest)
	}
	return nil
}

func (a *applier) copy(o operation) error {
	from, err := textOf(o.from, "from")
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	c, key, err := a.find(from, "copy operation does not apply: doc is missing from path: %s: %w")
	if err != nil {
		return err
	}
	at, err := a.get(c, key)
	if err == nil && at == nil && !a.options.Lenient {
		err = errMissing
	}
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := textOf(o.path, "path")
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", errMissing)
	}
	c, key, err = a.find(path, "copy operation does not apply: doc is missing destination path: %s: %w")
	if err != nil {
		return err
	}
	value := node{raw: null}
	if at != nil && !at.isNull() {
		if value.raw, err = at.text(); err != nil {
			return fmt.Errorf("error while performing deep copy: %w", err)
		}
		if a.copied += len(value.raw); a.copied > a.options.MaxCopied {
			return &CopySizeError{Size: a.copied, Limit: a.options.MaxCopied}
		}
	}
	if err := a.insert(c, key, value); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// find returns the object or list that has the last part of a path, and that part. If the document
// does not have it, the error has the format missing, with the path and errMissing.
func (a *applier) find(path, missing string) (c *container, key string, err error) {
	_, rest, more := strings.Cut(path, "/") // like the API server, ignore text before the first slash
	for at := &a.root; more && at != nil; {
		if c, err = a.open(at); err != nil {
			return nil, "", err
		}
		if c == nil {
			break
		}
		key, rest, more = strings.Cut(rest, "/")
		key = unescape.Replace(key)
		if !more {
			return c, key, nil
		}
		at, _ = a.get(c, key)
	}
	return nil, "", fmt.Errorf(missing, path, errMissing)
}

// get returns the value at a key. It returns nil for a missing member, and an error for an invalid
// index of a list.
func (a *applier) get(c *container, key string) (*node, error) {
	if c.members != nil {
		return c.members[key], nil
	}
	i, err := a.index(key, len(c.list))
	if err != nil {
		return nil, err
	}
	return &c.list[i], nil
}

// index returns the position of an index in a list of n elements.
func (a *applier) index(key string, n int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	at := i
	if i < 0 && a.options.Lenient {
		at += n
	}
	if at < 0 || at >= n {
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex) //nolint:staticcheck // the API server's text
	}
	return at, nil
}

func (a *applier) insert(c *container, key string, value node) error {
	if c.members != nil {
		c.members[key] = &value
		return nil
	}
	if key == "-" {
		c.list = append(c.list, value)
		return nil
	}
	i, err := a.index(key, len(c.list)+1)
	switch {
	case errors.Is(err, errIndex):
		return err
	case err != nil:
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	if err := a.spend((len(c.list) - i) * moveCost); err != nil {
		return err
	}
	c.list = slices.Insert(c.list, i, value)
	return nil
}

func (a *applier) take(c *container, key string) error {
	if c.members != nil {
		if c.members[key] == nil {
			return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, errMissing) //nolint:staticcheck // the API server's text
		}
		delete(c.members, key)
		return nil
	}
	i, err := a.index(key, len(c.list))
	if err != nil {
		return err
	}
	if err := a.spend((len(c.list) - i) * moveCost); err != nil {
		return err
	}
	c.list = slices.Delete(c.list, i, i+1)
	return nil
}
