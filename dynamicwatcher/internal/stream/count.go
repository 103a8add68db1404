// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"net/url"
)

// Count asks how many objects a Target has that is without Name and Selector, with a page of one object. It returns -1 where
// the server does not say that without sending all of them. Its errors are those of Open.
func (h *HTTP) Count(ctx context.Context, t Target) (int64, error) {
	page, err := h.page(ctx, t, url.Values{"limit": {"1"}})
	switch {
	case err != nil:
		return 0, err
	case page.RemainingItemCount != nil:
		return int64(len(page.events)) + *page.RemainingItemCount, nil
	case page.Continue == "":
		return int64(len(page.events)), nil
	}
	return -1, nil
}
