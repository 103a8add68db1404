// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package driver has what the connectors of the SDK have in common.
package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
)

// Fault returns an error with a class and an object.
func Fault(class error, object appcontext.Object, format string, args ...any) error {
	return &connector.Error{Class: class, Object: object, Err: fmt.Errorf(format, args...)}
}

// Terminal returns a terminal error without an object.
func Terminal(format string, args ...any) error {
	return Fault(connector.ErrTerminal, appcontext.Object{}, format, args...)
}

// Cause returns the cause of an error of a connector, without its class and object.
func Cause(err error) error {
	var known *connector.Error
	if errors.As(err, &known) && known.Err != nil {
		return known.Err
	}
	return err
}

// Ended returns the error of a call with an ended context. After a deadline the cluster counts as
// unreachable.
func Ended(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &connector.Error{Class: connector.ErrUnreachable, Err: err}
	}
	return err
}

// OneLine returns a text as one line of at most 300 bytes, for logs and statuses.
func OneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return cut.Text(text, 300)
}

// CheckKey validates a key of clusters: provider+cluster, provider+* or *.
func CheckKey(key string) error {
	if provider, cluster, ok := strings.Cut(key, "+"); key != "*" && (!ok || provider == "" || cluster == "") {
		return fmt.Errorf("key %q: must be provider+cluster, provider+* or *", key)
	}
	return nil
}

// Find returns the configuration of a cluster, with the most specific key.
func Find[C any](clusters map[string]C, id appcontext.ClusterID) (at C, ok bool) {
	for _, key := range []string{id.String(), id.Provider + "+*", "*"} {
		if at, ok = clusters[key]; ok {
			break
		}
	}
	return at, ok
}
