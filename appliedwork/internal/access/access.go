// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package access asks an API server which rights a user has.
package access

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	answerLife = 10 * time.Second
	maxAnswers = 4096
)

// Client creates access reviews, and returns each with its status.
type Client interface {
	Create(
		ctx context.Context, review *authorizationv1.SubjectAccessReview, options metav1.CreateOptions,
	) (*authorizationv1.SubjectAccessReview, error)
}

// Reviews makes access reviews and stores the answers for a short time. All methods may be called
// concurrently.
type Reviews struct {
	client Client
	clock  clock.PassiveClock

	mu      sync.Mutex
	answers map[question]*Answer
}

type question struct {
	user, groups string
	about        authorizationv1.ResourceAttributes
}

// Answer is the answer to a question. Reason explains a denial.
type Answer struct {
	Allowed bool
	Reason  string

	until time.Time     // guarded by Reviews.mu
	done  chan struct{} // the other fields are valid when it is closed
	err   error
	ended bool // the context of the caller that made the request has ended
}

// New returns a Reviews without answers.
func New(client Client, c clock.PassiveClock) *Reviews {
	return &Reviews{client: client, clock: c, answers: map[question]*Answer{}}
}

// Ask returns whether a user has a right. The answer is at most 10 seconds old. Concurrent callers
// that ask the same share a request.
func (r *Reviews) Ask(
	ctx context.Context, user string, groups []string, about authorizationv1.ResourceAttributes,
) (*Answer, error) {
	q := question{user, fmt.Sprintf("%q", groups), about}
	for {
		now := r.clock.Now()
		r.mu.Lock()
		a := r.answers[q]
		ours := a == nil || now.After(a.until)
		if ours {
			r.makeRoomLocked(now)
			a = &Answer{done: make(chan struct{}), until: now.Add(answerLife)}
			r.answers[q] = a
		}
		r.mu.Unlock()
		if ours {
			r.request(ctx, groups, q, a)
			return a, a.err
		}
		select {
		case <-a.done:
			if !a.ended {
				return a, a.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// request makes an access review and sets the answer. An error is not stored.
func (r *Reviews) request(ctx context.Context, groups []string, q question, a *Answer) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: q.user, Groups: groups, ResourceAttributes: &q.about,
	}}
	review, a.err = r.client.Create(ctx, review, metav1.CreateOptions{})
	if a.err == nil {
		a.Allowed, a.Reason = review.Status.Allowed && !review.Status.Denied, review.Status.Reason
		if problem := review.Status.EvaluationError; problem != "" && !a.Allowed {
			a.Reason = strings.TrimPrefix(a.Reason+": "+problem, ": ")
		}
	}
	a.ended = a.err != nil && ctx.Err() != nil
	r.mu.Lock()
	if a.err != nil && r.answers[q] == a {
		delete(r.answers, q)
	}
	r.mu.Unlock()
	close(a.done)
}

// makeRoomLocked removes expired answers at the limit, and all answers if that is not enough.
func (r *Reviews) makeRoomLocked(now time.Time) {
	if len(r.answers) < maxAnswers {
		return
	}
	for q, a := range r.answers {
		if now.After(a.until) {
			delete(r.answers, q)
		}
	}
	if len(r.answers) >= maxAnswers {
		clear(r.answers)
	}
}
