// Each block of code has a button that copies it, without the prompts of a terminal.
for (const block of document.querySelectorAll("div.highlight")) {
  const button = document.createElement("button");
  button.textContent = "Copy";
  button.className = "copy";
  button.addEventListener("click", async () => {
    const text = block.querySelector("pre").textContent;
    await navigator.clipboard.writeText(text.replace(/^\$ /gm, ""));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}
