// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package zz has declarations that the tests of documentation must find, and declarations that they
// must skip.
package zz

import "net/http"

// Several things.
type (
	A struct{}
	B interface{ Do() }
)

// G is generic.
type G[T any] struct{ v T }

// Get gets.
func (g *G[T]) Get() T { return g.v }

func (g *G[T]) Put(T) {}

func (g G[T]) Value() T { return g.v }

type hidden struct{}

func (hidden) Shown() {}

// NewIface makes an interface of ours.
func NewIface() B { return nil }

// NewForeign makes an interface of others.
func NewForeign() http.Handler { return nil }

// NewG makes a generic.
func NewG[T any]() (*G[T], error) { return nil, nil }

// NewHidden makes what is hidden.
func NewHidden() *hidden { return nil }

// OpenHidden makes what is hidden under another name.
func OpenHidden() (*hidden, error) { return nil, nil }

// Open makes two things.
func Open() (*A, *G[int], error) { return nil, nil, nil }

// Handler makes an interface of others under another name.
func Handler() http.Handler { return nil }

// NewChild makes one.
func (A) NewChild() *A { return nil }

// NewFn makes one.
var NewFn = func() *A { return nil }

// NewNoOutput has an example without output.
func NewNoOutput() *A { return nil }

// NewSuffix has an example with a suffix.
func NewSuffix() *A { return nil }

// Kind is one.
type Kind int

// The kinds.
const (
	One Kind = iota
	Two
)

var ErrX = http.ErrAbortHandler

// NewGood has an example with output.
func NewGood() *A { return nil }
