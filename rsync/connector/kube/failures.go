// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/cut"
)

// failures has the last logged error of the interpreter for one kind. A mistake in a customization
// fails for each object, so one error a minute is logged, and the same error once.
type failures struct {
	text string
	at   time.Time
}

// maxFailure limits the text of an error in the log, in bytes.
const maxFailure = 1024

// report logs an error of the interpreter. The text of an error about a Secret may quote it.
func (q *questions) report(ctx context.Context, kind *slots, about subject, err error) {
	if err == nil || errors.Is(err, ErrNotInterpreted) || q.ctx.Err() != nil {
		return
	}
	text := err.Error()
	if about.gvk.Group == "" && about.gvk.Kind == "Secret" {
		text = describe(err)
	}
	text = cut.Text(text, maxFailure)
	q.mu.Lock()
	known := kind.logged.text == text || !kind.logged.at.IsZero() && time.Since(kind.logged.at) < time.Minute
	if !known {
		kind.logged = failures{text: text, at: time.Now()}
	}
	q.mu.Unlock()
	if !known {
		klog.FromContext(ctx).Error(errors.New(text), "Failed to interpret the health of an object",
			"kind", about.gvk.Kind, "group", about.gvk.Group, "namespace", about.namespace, "name", about.name)
	}
}
